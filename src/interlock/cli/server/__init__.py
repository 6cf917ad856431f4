"""Commands that talk to the control plane: where it is, which key it is shown, and what its answers mean."""
