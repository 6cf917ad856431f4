"""The API under ``/api/v1``: one module for each resource, and one for each duty that all requests share."""
