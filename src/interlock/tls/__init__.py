"""Certificates for TLS as plain values: made by ourselves, or judged when they come from elsewhere.

The package decides whether a certificate and its key belong together, whether a server can serve them and clients can
check them, and how strictly. It reads no file and knows no server; embedded clusters and drivers of instances use it.
All but `has_cryptography` need the optional package `cryptography`, which is imported when it is first needed.
"""
