"""The control plane that `interlock up` runs. Only this package imports the web framework; its entry
point is `service.serve`."""
