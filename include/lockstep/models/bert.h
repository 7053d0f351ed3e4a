#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/detail/models/token_inputs.h"
#include "lockstep/models/bert_config.h"
#include "lockstep/models/initialization.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

class BertEmbeddings;
class BertEncoder;
class BertPooler;
class Embedding;

struct BertOutput {
  at::Tensor last_hidden_state;  ///< [size, length, hidden_size]
  at::Tensor pooler_output;  ///< [size, hidden_size]: tanh of a layer over the first token; undefined without pooler
};

/// The encoder (Devlin et al., 2018, arXiv:1810.04805), with the parameter names of Hugging Face's `BertModel`.
class BertModelImpl : public torch::nn::Module {
 public:
  /// @param has_pooler  as `add_pooling_layer`
  /// @throws Error  if the configuration is not possible
  explicit BertModelImpl(const BertConfig& config, bool has_pooler = true,
                         InitialWeights weights = InitialWeights::Random);
  ~BertModelImpl() override;

  /// Reads config.json and the weights in `folder`. The head of a classifier or language model is left out.
  /// @throws Error  if something cannot be read or does not fit; it names file and field
  static Loaded<BertModelImpl> from_pretrained(const std::string& folder, const LoadOptions& options = {});
  /// Writes config.json and the weights, so that Hugging Face's `from_pretrained` reads them.
  void save_pretrained(const std::string& folder, std::uint64_t max_shard_bytes = kDefaultMaxShardBytes) const;

  /// @throws Error  if ids, lengths or shapes do not fit (see check_token_inputs)
  BertOutput forward(const TokenInputs& inputs);

  const BertConfig& config() const { return config_; }
  const Embedding& word_embeddings() const;

 private:
  BertConfig config_;
  std::shared_ptr<BertEmbeddings> embeddings_;
  std::shared_ptr<BertEncoder> encoder_;
  std::shared_ptr<BertPooler> pooler_;
};
TORCH_MODULE(BertModel);

}  // namespace lockstep
