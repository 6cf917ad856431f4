"""Keys to the API: made, looked up by their hash, revoked."""
