#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/detail/models/token_inputs.h"
#include "lockstep/detail/sentence/sentence_layout.h"
#include "lockstep/models/pretrained.h"
#include "lockstep/tensor/batch.h"

namespace lockstep {

/// An encoder (BERT, RoBERTa, DistilBERT, ELECTRA or MPNet) that makes one vector of each text, as
/// sentence-transformers does (Reimers and Gurevych, 2019, arXiv:1908.10084). Its parameters have the encoder's names,
/// so its weights are those of Hugging Face's `AutoModel`. A pooler, which such files may hold, is kept and takes no
/// part.
class SentenceEncoderImpl : public torch::nn::Module {
 public:
  /// Reads a folder of sentence-transformers, or of a plain encoder, which gets mean pooling.
  /// @throws Error  as load_pretrained_model; if modules.json names a module beside Transformer, Pooling and Normalize,
  /// or another pooling than these
  static Loaded<SentenceEncoderImpl> from_pretrained(const std::string& folder, const LoadOptions& options = {});
  /// The same for a folder; or a new BERT with random weights by its name, such as bert-tiny.
  /// @param options  a new model embeds `tokenizer_size` tokens if that is given
  /// @param pad_token_id  the tokenizer's padding id, for a new model
  static Loaded<SentenceEncoderImpl> load_or_make(const std::string& folder_or_name, const LoadOptions& options,
                                                  std::optional<std::int64_t> pad_token_id);
  ~SentenceEncoderImpl() override;

  /// @return  [size, hidden_size], at least in fp32
  /// @throws Error  if ids, lengths or shapes do not fit the configuration; the message names field, row and column
  at::Tensor forward(const TokenInputs& inputs);
  /// The vectors of a batch of SentenceCollator: [size, texts of each sample, hidden_size].
  at::Tensor forward(const Batch& batch);
  void train(bool on = true) override;

  const SentenceLayout& layout() const { return layout_; }
  void set_layout(const SentenceLayout& layout) { layout_ = layout; }
  std::int64_t hidden_size() const;
  /// Tokens in the longest text that the encoder accepts.
  std::int64_t max_positions() const;
  /// The files of its folder besides weights and tokenizer, by name, so that sentence-transformers and Lockstep read
  /// it: config.json, modules.json, 1_Pooling/config.json, ...
  std::map<std::string, std::string> files() const;
  /// As Model's, of a batch whose fields "input_ids_0", "input_ids_1", ... hold texts.
  double floating_point_ops(const Batch& batch) const;

  class Encoder;
  /// Internal: see load_or_make.
  SentenceEncoderImpl(std::shared_ptr<Encoder> encoder, const SentenceLayout& layout);

 private:
  std::shared_ptr<Encoder> encoder_;
  SentenceLayout layout_;
};
TORCH_MODULE(SentenceEncoder);

}  // namespace lockstep
