"""The dashboard: pages about what the store holds, from a server or as files."""
