#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Elements [begin, end) of a tensor, and the number of the file or the rank that has them.
struct TensorPiece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t owner = 0;
};

/// Sorts the pieces of one tensor. @return  `elements 3 to 5 of "name" are in no part`, or "there twice"; empty if they
/// have each of its `count` elements once
std::string sort_pieces(const std::string& name, std::vector<TensorPiece>& pieces, std::int64_t count);

/// The number of elements of a tensor of these sizes. Does not overflow if one of them is 0.
std::int64_t elements_in(const std::vector<std::int64_t>& sizes);

}  // namespace lockstep
