#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lockstep {

/// Reads an IDX file, the format of MNIST: two zero bytes, one for the type, one for the number of dimensions, each
/// dimension as a big-endian 32-bit number, then the elements, big-endian, last dimension fastest. Plain or gzip,
/// recognised by the content. Memory is allocated only after the header was found to match the size of the file.
///
/// @return  a tensor of the file's type: uint8, int8, int16, int32, float32 or float64
/// @throws Error  that names the file, what was expected and what was found, if the file is not IDX, has an unknown
/// type or dimensions that do not match its size, is truncated, or has bytes after its end
/// Reference: Y. LeCun, C. Cortes, C. Burges, The MNIST database, "The IDX file format".
at::Tensor read_idx(const std::string& path);

/// Writes `tensor` as an IDX file, completely or not at all.
/// @throws Error  if IDX does not have the type, there are more than 255 dimensions, or the file cannot be written
void write_idx(const std::string& path, const at::Tensor& tensor);

}  // namespace lockstep
