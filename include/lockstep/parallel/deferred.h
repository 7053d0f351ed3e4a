#pragma once

#include <memory>

namespace lockstep {

namespace detail {

/// While it lives, parameters that this thread builds get no elements.
class [[nodiscard]] Deferring {
 public:
  /// @throws Error  if this thread defers already
  Deferring();
  ~Deferring();
  Deferring(const Deferring&) = delete;
  Deferring& operator=(const Deferring&) = delete;
  /// Takes the memory of the parameters away.
  void finish();

 private:
  class Recorder;
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace detail

/// Builds a model whose weights are not in memory yet: how they are filled is noted, and each is made when LibTorch is
/// about to read it. `fully_shard` makes one after the other, and keeps this rank's share of each, so that no rank ever
/// holds the model. Weights have the bits that they would have had at once, random ones and those that are read from
/// safetensors; after it, random numbers continue as if nothing were deferred. Like PyTorch's
/// `with torch.device("meta")`, and no weight has to be initialised by hand.
///
///     auto model = lockstep::deferred([&] { return Net(config); });
///     lockstep::AdamW optimizer(model->parameters(), options);
///     auto fsdp = lockstep::fully_shard(model, optimizer);
///
/// Deferred are parameters of 64 KiB and more on the CPU that are registered before they are filled, as LibTorch's
/// layers do; others are in memory as ever. A weight takes memory for a moment while random numbers for it are drawn,
/// which happens twice. What fills weights past LibTorch's operations, by `data_ptr`, must write all of a weight, and
/// not zeros alone: what it leaves out is zero. A weight that reads another tensor (`copy_`) keeps that tensor, which
/// must not change until it was made.
///
/// @param make  returns the model, a module holder or a shared_ptr; called once
/// @throws Error  if `make` calls it again; what `make` throws
template <typename Make>
auto deferred(const Make& make) {
  detail::Deferring deferring;
  auto model = make();
  deferring.finish();
  return model;
}

}  // namespace lockstep
