#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <utility>
#include <vector>

#include "lockstep/detail/tensor/autocast.h"

namespace lockstep {

/// While it lives, operators of this thread compute in bf16 on the CPU, as with `torch.autocast`, and LibTorch's layers
/// in `module` read the bf16 copies of their weights that a fused update publishes (FuseOptions::compute_dtype). Plain
/// autocast casts every weight in every forward, and casts its gradient on the way back; here gradients are added to
/// the fp32 ones in place. Copies change no bit of a result. Without them each weight is cast once in a forward.
///
///     at::Tensor scores;
///     {
///       const lockstep::Bf16Forward bf16(*model);
///       scores = ddp(images).to(torch::kFloat);
///     }
///     torch::cross_entropy_loss(scores, labels).backward();
///
/// It concerns Linear, convolutions and MultiheadAttention: meanwhile their members `weight`, `bias` and so on are bf16
/// tensors that stand for the parameters. Several forwards and backwards may follow each other meanwhile, but no step
/// of an optimizer and no other write to weights: a forward after it may read the weights from before, and its backward
/// is an Error. Code of a module that computes with a layer's weight itself sees bf16, and what LibTorch 1.13's
/// autocast would leave in fp32 (the bias of a product of three dimensions) is rounded. `parameters()` and what is
/// registered do not change. Lockstep's own layers need autocast alone, and other layers compute as under autocast.
class [[nodiscard]] Bf16Forward {
 public:
  /// @param module  must outlive this object
  explicit Bf16Forward(torch::nn::Module& module);
  ~Bf16Forward();
  Bf16Forward(const Bf16Forward&) = delete;
  Bf16Forward& operator=(const Bf16Forward&) = delete;

 private:
  Autocast autocast_;
  std::vector<std::pair<at::Tensor*, at::Tensor>> replaced_;  // members of layers, and what they were
};

}  // namespace lockstep
