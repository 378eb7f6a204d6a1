"""Agents, which watch the processes of one host."""
