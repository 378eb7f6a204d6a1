"""Tests make plans anew, so that what they test is what runs; those of the store switch it on."""
import os

os.environ.setdefault("RUSHLIGHT_STORE", "0")
