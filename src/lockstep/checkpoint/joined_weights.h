#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/files/tensor_pieces.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/detail/checkpoint/tensor_parts.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// The weights of one model, of which each rank has parts, as one safetensors file that rank 0 writes. It has the bytes
/// of a file that a rank with all weights would write. The others send rank 0 their elements when the file needs them,
/// so rank 0 never has more than its own and a piece of theirs.
///
/// If a call fails on one rank, this rank must end the group (`abort`), because others may wait in it.
class JoinedWeights {
 public:
  /// The ranks learn what each of them has. Collective.
  /// @param group  used by nobody else meanwhile; must outlive this object
  /// @param parts  of this rank, whose elements may lie anywhere
  /// @param path   named in errors
  /// @throws Error  on every rank, if the ranks' parts do not have each element once, or do not fit each other
  JoinedWeights(Communicator& group, const TensorParts& parts, const std::string& path);

  std::uint64_t size_bytes() const { return prefix_.size() + data_bytes_; }
  /// Rank 0: passes the file to `sink`, piece by piece, while the others call `send`.
  void write(const std::function<void(std::string_view)>& sink) const;
  /// The others: sends rank 0 what it asks for.
  void send() const;

 private:
  struct Tensor {
    std::string name;
    std::size_t element_size = 1;
    std::vector<TensorPiece> pieces;  // in order; the owner is a rank
  };

  void receive(const Tensor& tensor, const TensorPiece& piece, const std::function<void(std::string_view)>& sink) const;
  at::Tensor own_bytes(const Tensor& tensor, const TensorPiece& piece) const;

  Communicator& group_;
  TensorParts parts_;
  std::string prefix_;
  std::uint64_t data_bytes_ = 0;
  std::vector<Tensor> tensors_;  // in the file's order
};

/// Writes the ranks' parts of one model's weights into the file `path`, on rank 0, which then appears whole or not at
/// all. Collective over `group`, from which it makes a group of its own.
/// @param finish  called on rank 0 when the file is there
/// @throws Error  on every rank, if the file cannot be written, or as JoinedWeights
void write_joined_weights(Communicator& group, const std::string& path, const TensorParts& parts,
                          const std::function<void()>& finish);

/// As `write_weight_files`, of a model of which each rank has parts: rank 0 writes the files one after the other.
/// Collective over `group`.
/// @param outlines  the model's tensors, in order; only their names, sizes and types are looked at
/// @throws Error  on every rank, as write_joined_weights
void write_joined_weight_files(Communicator& group, const std::string& folder, const NamedTensors& outlines,
                               const TensorParts& parts, std::uint64_t max_shard_bytes);

}  // namespace lockstep
