"""Elastic jobs of several processes, restarted on as many hosts as there are."""
