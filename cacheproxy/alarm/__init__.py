"""Alarms: reported in the log, by the terminal's bell, on the desktop, to a webhook."""
