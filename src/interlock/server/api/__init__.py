"""The API under ``/api/v1``: a file for each resource, and one for each thing that is done with every request."""
