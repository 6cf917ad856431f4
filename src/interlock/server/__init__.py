"""The control plane: what `interlock up` runs. Only this imports the web framework; `serving.serve` is the way in."""
