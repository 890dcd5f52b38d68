"""``python -m gpusim`` is the command ``gpusim``, where its script is not on the path."""

from gpusim.cli import main

if __name__ == "__main__":
    main()
