"""The control plane that `interlock up` runs. Only this package imports the web framework; it is entered by
`service.serve`."""
