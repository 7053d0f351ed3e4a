#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/data/text/encoders/added_tokens.h"
#include "lockstep/data/text/files/tokenizer_document.h"
#include "lockstep/data/text/sequence_assembly.h"
#include "lockstep/data/text/text_encoder.h"
#include "lockstep/data/text/token_decoder.h"
#include "lockstep/data/text/tokenizer.h"

namespace lockstep::text {

/// The tables behind a Tokenizer and its copies. Immutable except for the pool of scratches, which has a lock.
class TokenizerCore {
 public:
  /// Work space borrowed from the pool, for one thread at a time.
  class Lease {
   public:
    explicit Lease(const TokenizerCore& core) : core_(core), scratch_(core.take_scratch()) {}
    ~Lease() { core_.give_back(std::move(scratch_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    EncoderScratch& scratch() const { return *scratch_; }

   private:
    const TokenizerCore& core_;
    std::unique_ptr<EncoderScratch> scratch_;
  };

  /// @throws Error  if a declared value of the document is wrong or not supported
  explicit TokenizerCore(TokenizerDocument document);

  /// A tokenizer with the tables of `document`. @throws Error  as the constructor
  static Tokenizer make_tokenizer(TokenizerDocument document);

  /// Encodes one text, or two, by `options`, without padding.
  Encoding encode(std::string_view first, const std::string_view* second, const EncodeOptions& options,
                  EncoderScratch& scratch) const;
  /// Appends the ids of `text` to the scratch, and their spans if `spans`.
  void append(std::string_view text, bool spans, EncoderScratch& scratch) const;
  std::string decode(const std::vector<TokenId>& ids, const DecodeOptions& options) const;

  const TokenizerDocument& document() const { return document_; }
  const std::optional<DeclaredPadding>& padding() const { return padding_; }
  const std::optional<Truncation>& truncation() const { return truncation_; }
  /// The token with number `id`, or null.
  const std::string* token(TokenId id) const;
  TokenId id_limit() const { return id_limit_; }

 private:
  void check_added_tokens() const;
  void make_finders();
  void append_text(std::string_view text, std::int32_t first_char, bool spans, EncoderScratch& scratch) const;
  void append_normalized(std::string_view text, std::int32_t first_char, EncoderScratch& scratch) const;
  void append_segments(const AddedTokenFinder& finder, std::string_view text, std::int32_t first_char, bool spans,
                       EncoderScratch& scratch) const;

  std::unique_ptr<EncoderScratch> take_scratch() const;
  void give_back(std::unique_ptr<EncoderScratch> scratch) const noexcept;

  TokenizerDocument document_;
  std::unique_ptr<TextEncoder> encoder_;
  PostProcessor processor_;
  TokenDecoder decoder_;
  std::optional<Truncation> truncation_;
  std::optional<DeclaredPadding> padding_;
  AddedTokenFinder raw_tokens_;         // searched in the unchanged text
  AddedTokenFinder normalized_tokens_;  // searched in normalized text
  std::unordered_map<TokenId, const AddedToken*> added_;
  std::unordered_map<TokenId, std::string> normalized_content_;  // if it differs from the token's content
  TokenId id_limit_ = 0;

  mutable std::mutex pool_mutex_;
  mutable std::vector<std::unique_ptr<EncoderScratch>> pool_;
};

}  // namespace lockstep::text
