"""The client of the control plane: finds the server and its key, sends requests, and reads answers and errors."""
