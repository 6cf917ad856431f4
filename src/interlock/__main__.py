"""``python -m interlock`` runs the command line, like the script `interlock`."""

from interlock.cli import main

if __name__ == "__main__":
    main()
