//! Every redb table, key and value of the index; connect, disconnect and read snapshots.
