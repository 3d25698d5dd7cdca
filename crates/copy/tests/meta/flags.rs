//! Inode flags and project IDs, which cp does not know.
