"""What the system's own service manager needs to keep the proxy running: systemd, launchd."""
