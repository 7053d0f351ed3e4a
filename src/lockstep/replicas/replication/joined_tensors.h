#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <map>
#include <vector>

namespace lockstep {

/// Copies of lists of tensors on several devices. The tensors of one dtype travel in one piece of memory, which is put
/// together once for all devices that need the same tensors.
class JoinedTensors {
 public:
  /// Copies of `sources`, which are all on one device. Each is a view of the piece of its dtype.
  std::vector<at::Tensor> copies_on(c10::Device device, const std::vector<at::Tensor>& sources);

 private:
  struct Piece {
    std::vector<at::Tensor> sources;
    at::Tensor memory;  // on their device
  };
  const at::Tensor& joined(const std::vector<at::Tensor>& sources);

  std::map<at::ScalarType, Piece> pieces_;
};

}  // namespace lockstep
