"""What every package uses: errors, files, processes, progress, the command line's own parts."""
