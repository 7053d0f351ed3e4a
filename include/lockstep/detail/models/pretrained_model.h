#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/detail/models/initialization.h"
#include "lockstep/models/model.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

/// A module with a configuration that is read from a folder in Hugging Face's form, and written to one.
///
/// @tparam Impl  the class itself: it has `kArchitecture`, Hugging Face's name of it, and is made from a configuration
/// and InitialWeights
/// @tparam Base  torch::nn::Module, or a class that extends it
template <typename Impl, typename Config, typename Base>
class PretrainedModule : public Base {
 public:
  /// Reads config.json and the weights in `folder`. A model without a head leaves the weights of heads out.
  /// @throws Error  if something cannot be read or does not fit; it names file and field
  static Loaded<Impl> from_pretrained(const std::string& folder, const LoadOptions& options = {});
  /// Writes config.json and the weights, so that Hugging Face's `from_pretrained` reads them.
  void save_pretrained(const std::string& folder, std::uint64_t max_shard_bytes = kDefaultMaxShardBytes) const;

  const Config& config() const { return config_; }

 protected:
  explicit PretrainedModule(const Config& config) : Base(Impl::kArchitecture), config_(config) {}
  /// Fills all parameters, unless they stay unset. Called at the end of the constructor of `Impl`.
  void fill(InitialWeights weights);

 private:
  Config config_;
};

/// A model of texts with a head, which reads batches of token ids.
///
/// @tparam Impl  as above; `kScoresEachToken` says whether labels are [size, length] or [size]
template <typename Impl, typename Config>
class PretrainedTextModel : public PretrainedModule<Impl, Config, Model> {
 public:
  InputKind input_kind() const override { return InputKind::Text; }
  std::vector<InputField> inputs() const override;

 protected:
  using PretrainedModule<Impl, Config, Model>::PretrainedModule;

 private:
  at::Tensor forward_batch(const Batch& batch) override;
  std::shared_ptr<Model> make_alike() const override;
};

}  // namespace lockstep
