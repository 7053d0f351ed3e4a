#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "lockstep/data/text/tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {

inline void write_text(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// A tokenizer's files in a separate folder.
class SmallFolder {
 public:
  SmallFolder& put(const std::string& name, const std::string& content) {
    write_text(folder_ / name, content);
    return *this;
  }
  const std::string& path() const { return folder_.path(); }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  Tokenizer load() const { return load_tokenizer(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

inline std::string lines(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token + "\n";
  return text;
}

/// [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then the words that the tests use.
inline const std::vector<std::string>& small_bert_tokens() {
  static const std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "boat", "##s",
                                                  "is",    "not",   "here",  ",",     ".",      "!",   "a",    "b",
                                                  "c",     "d",     "##b",   "##c",   "don",    "'",   "t",    "Boat"};
  return tokens;
}

inline Tokenizer small_bert() { return SmallFolder().put("vocab.txt", lines(small_bert_tokens())).load(); }

/// The ids without the special tokens around the text.
inline std::vector<TokenId> inner_ids(const Tokenizer& tokenizer, const std::string& text) {
  EncodeOptions options;
  options.add_special_tokens = false;
  return tokenizer.encode(text, options).ids;
}

inline std::vector<std::string> inner_tokens(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> tokens;
  for (const TokenId id : inner_ids(tokenizer, text)) tokens.push_back(tokenizer.id_to_token(id));
  return tokens;
}

}  // namespace lockstep
