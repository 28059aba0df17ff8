# Triggers work that packages delay until their first use. Used by probe.py and by the zygote.


def exercise():
    """OpenBLAS maps its work space at the first matrix product, and loops forever if it gets none."""
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
        pass  # the program's own calls report the error
