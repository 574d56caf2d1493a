"""Your own GPU boxes as a provider of gipper: over SSH, one job at a time, never switched off."""

from gipper_ssh.plugin import SshProvider

__all__ = ["SshProvider"]
