"""Certificates for tests, made by the openssl program."""

import shutil
import subprocess

import pytest


def self_signed(directory):
    """A certificate for this host that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl program, to make a certificate")
    key, certificate = directory / "key.pem", directory / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
