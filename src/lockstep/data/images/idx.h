#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lockstep {

/// Reads an IDX file, the format of MNIST: two zero bytes, one for the type, one for the number of dimensions, each
/// dimension as a big-endian 32-bit number, then the elements, big-endian, last dimension fastest. Plain or gzip, told
/// apart by the content. Nothing is allocated before the header was found to fit the size of the file.
///
/// @return  a tensor of the file's type: uint8, int8, int16, int32, float32 or float64
/// @throws Error  that names the file, what was expected and what was found: no IDX, an unknown type, dimensions that
/// do not fit the file, truncated, or followed by more bytes
/// Reference: Y. LeCun, C. Cortes, C. Burges, The MNIST database, "The IDX file format".
at::Tensor read_idx(const std::string& path);

/// Writes `tensor` as an IDX file that is there whole or not at all.
/// @throws Error  if IDX has no such type, or more than 255 dimensions, or the file cannot be written
void write_idx(const std::string& path, const at::Tensor& tensor);

}  // namespace lockstep
