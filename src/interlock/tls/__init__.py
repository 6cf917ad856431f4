"""Makes self-signed certificates for TLS, and verifies other certificates, all as plain values.

This package checks that a certificate and its key belong together, that a server can serve them, and how strictly
clients can check them. It reads no files and knows no servers; embedded clusters and drivers of instances use it.
All functions but `has_cryptography` need the optional package `cryptography`, imported when it is first needed.
"""
