"""The client of the control plane: where the server is, the key that is sent to it, and what its answers mean."""
