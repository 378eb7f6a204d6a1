"""Experimental attention: paged keys and values."""
