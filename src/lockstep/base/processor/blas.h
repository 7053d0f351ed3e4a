#pragma once

#include <string>

namespace lockstep {

/// The BLAS that computes matrix products in this process.
struct BlasLibrary {
  std::string name;  ///< "OpenBLAS", "MKL", "BLIS", "ATLAS", "reference"; "none" where no BLAS is loaded as a library
  std::string path;  ///< file it was loaded from; empty with "none"
  std::string description;  ///< what the library says about itself, where it does
  int num_threads = 0;      ///< threads that it uses; 0 where it cannot be asked

  /// True for Netlib's reference BLAS, which is ten to a hundred times slower than the others.
  bool is_reference() const { return name == "reference"; }
};

/// Finds out by the symbols that this process has loaded. Cheap; thread-safe.
BlasLibrary loaded_blas();

}  // namespace lockstep
