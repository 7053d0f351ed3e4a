#pragma once

#include <string>

namespace lockstep {

/// The BLAS that computes matrix products in this process.
struct BlasLibrary {
  std::string name;  ///< "OpenBLAS", "MKL", "BLIS", "ATLAS", "reference"; "none" if no BLAS is loaded as a library
  std::string path;  ///< file it was loaded from; empty with "none"
  std::string description;  ///< the library's own description, if it has one
  int num_threads = 0;      ///< threads that it uses; 0 if it cannot be asked

  /// True for Netlib's reference BLAS, which is ten to a hundred times slower than the others.
  bool is_reference() const { return name == "reference"; }
};

/// Identifies the library by the symbols that this process has loaded. Cheap; thread-safe.
BlasLibrary loaded_blas();

}  // namespace lockstep
