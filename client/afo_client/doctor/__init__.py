"""What `afo doctor` looks at on this machine and the cluster."""
