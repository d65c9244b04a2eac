//! What every backend must keep, told once; a backend brings a way to open it.
