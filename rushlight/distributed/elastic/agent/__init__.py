"""Who watches the processes of one machine."""
