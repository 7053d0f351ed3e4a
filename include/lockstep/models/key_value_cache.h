#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// The keys and values of the tokens that a decoder has read, layer by layer, so that a further token costs one row.
class KeyValueCache {
 public:
  /// One layer appends rows, and gets all so far. Memory grows by doubling.
  class Layer {
   public:
    struct KeysAndValues {
      at::Tensor keys, values;  ///< [size, length so far, ...]
    };
    /// @param keys, values  [size, new tokens, ...], with the same other sizes in every call
    KeysAndValues append(const at::Tensor& keys, const at::Tensor& values);
    std::int64_t length() const { return length_; }

   private:
    at::Tensor keys_, values_;  // with room behind `length_`
    std::int64_t length_ = 0;
  };

  /// Tokens read so far.
  std::int64_t length() const { return layers_.empty() ? 0 : layers_.back().length(); }
  /// @param index  from 0 on; all layers append once for each call of the model
  Layer& layer(std::size_t index);

 private:
  std::vector<Layer> layers_;
};

/// A decoder that continues texts without reading them again.
class CachedDecoder {
 public:
  virtual ~CachedDecoder() = default;
  /// Reads tokens that follow those of `cache`, without gradients.
  /// @param input_ids  [size, new tokens]
  /// @return  the scores of the token after the last one, [size, vocab_size]
  /// @throws Error  if ids do not fit the model, or it has not so many positions
  virtual at::Tensor next_scores(const at::Tensor& input_ids, KeyValueCache& cache) = 0;
};

}  // namespace lockstep
