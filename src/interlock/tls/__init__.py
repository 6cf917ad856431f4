"""Certificates for TLS as plain values: makes self-signed ones, and verifies others.

It checks that a certificate and its key belong together, that a server can serve them and clients can check them, and
how strictly. It reads no files and knows no servers; embedded clusters and drivers of instances use it.
All but `has_cryptography` need the optional package `cryptography`, which is imported when it is first needed.
"""
