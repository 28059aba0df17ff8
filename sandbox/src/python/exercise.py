# What packages put off until their first use, done before there is a program; the host's description and the zygote share it.


def exercise():
    """OpenBLAS maps its work space at the first product of matrices, and spins for ever where it gets none."""
    import sys
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    try:
        square = numpy.eye(192) * 2 + 1
        square @ square
        for name in ("inv", "svd", "eigh", "eig", "qr", "cholesky", "det"):
            getattr(numpy.linalg, name)(square)
        numpy.linalg.solve(square, square)
    except Exception:
        pass  # the program will be told so by its own calls
