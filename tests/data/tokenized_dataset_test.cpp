#include "lockstep/data/tokenized_dataset.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokens/token_table.h"
#include "tests/data/text/small_tokenizers.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using Ids = std::vector<std::int64_t>;

Ids values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()};
}

class Tokenize : public ::testing::Test {
 protected:
  std::shared_ptr<const TextDataset> csv(const std::string& content, std::vector<std::string> texts,
                                         std::string label = "") {
    write_file_atomically(folder_ / "rows.csv", content);
    TextFileOptions options;
    options.texts = std::move(texts);
    options.label = std::move(label);
    return read_csv_texts(folder_ / "rows.csv", options);
  }
  std::vector<std::string> cache_files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) {
      if (entry.path().extension() == ".bin") files.push_back(entry.path().string());
    }
    return files;
  }
  TokenizeOptions cached() const {
    TokenizeOptions options;
    options.cache_dir = folder_ / "cache";
    return options;
  }
  TemporaryFolder folder_;
  const Tokenizer tokenizer_ = small_bert();
};

constexpr const char* kBoats = "text,more,label\nthe boats,is here,yes\na !,the boat .,no\n";

TEST_F(Tokenize, MakesIdsMasksAndLabels) {
  const auto dataset = tokenize(*csv(kBoats, {"text"}, "label"), tokenizer_);
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->lengths(), (Ids{5, 4}));
  EXPECT_EQ(dataset->num_tokens(), 9);
  const Example first = dataset->get(0);
  EXPECT_EQ(values_of(first.at("input_ids")), (Ids{2, 5, 6, 7, 3}));  // [CLS] the boat ##s [SEP]
  EXPECT_EQ(values_of(first.at("attention_mask")), (Ids{1, 1, 1, 1, 1}));
  EXPECT_EQ(first.at("labels").item<std::int64_t>(), 1);
  EXPECT_EQ(first.count("token_type_ids"), 0U);
  EXPECT_EQ(values_of(dataset->get(1).at("input_ids")), (Ids{2, 14, 13, 3}));
}

TEST_F(Tokenize, MakesPairsWithTokenTypes) {
  const auto dataset = tokenize(*csv(kBoats, {"text", "more"}), tokenizer_);
  const Example first = dataset->get(0);
  EXPECT_EQ(values_of(first.at("input_ids")), (Ids{2, 5, 6, 7, 3, 8, 10, 3}));
  EXPECT_EQ(values_of(first.at("token_type_ids")), (Ids{0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(first.count("labels"), 0U);
}

TEST_F(Tokenize, TruncatesOnlyWhenTold) {
  TokenizeOptions options;
  options.max_length = 4;
  const auto rows = csv(kBoats, {"text"});
  expect_error("the row has 5 tokens, but at most 4 are allowed", [&] { tokenize(*rows, tokenizer_, options); });
  expect_error("rows.csv:2", [&] { tokenize(*rows, tokenizer_, options); });
  options.truncation = true;
  EXPECT_EQ(values_of(tokenize(*rows, tokenizer_, options)->get(0).at("input_ids")), (Ids{2, 5, 6, 3}));
  options.max_length = 1;
  expect_error("rows.csv:2", [&] { tokenize(*rows, tokenizer_, options); });
  options.max_length = 0;
  expect_error("max_length 0", [&] { tokenize(*rows, tokenizer_, options); });
}

TEST_F(Tokenize, AppendsTheEndOfTextWithinTheLength) {
  SmallFolder folder;
  folder.put("vocab.txt", lines(small_bert_tokens()))
      .put("tokenizer_config.json", "{\"tokenizer_class\": \"BertTokenizer\", \"eos_token\": \"!\"}");
  TokenizeOptions options;
  options.append_eos = true;
  options.add_special_tokens = false;
  options.max_length = 2;
  options.truncation = true;
  const auto rows = csv(kBoats, {"text"});
  EXPECT_EQ(values_of(tokenize(*rows, folder.load(), options)->get(0).at("input_ids")), (Ids{5, 13}));
  expect_error("has none", [&] { tokenize(*rows, tokenizer_, options); });
}

TEST_F(Tokenize, CacheIsUsedForTheSameContentAlone) {
  const auto rows = csv(kBoats, {"text", "more"}, "label");
  TokenizeOptions options = cached();
  const auto fresh = tokenize(*rows, tokenizer_);
  const auto check = [&](const TokenizedDataset& dataset) {
    ASSERT_EQ(dataset.size(), fresh->size());
    for (std::int64_t i = 0; i < fresh->size(); ++i) {
      const Example want = fresh->get(i);
      const Example got = dataset.get(i);
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [name, tensor] : want) EXPECT_TRUE(got.at(name).equal(tensor)) << name;
    }
  };
  check(*tokenize(*rows, tokenizer_, options));
  ASSERT_EQ(cache_files(), std::vector<std::string>{token_cache_path(*rows, tokenizer_, options)});
  const auto written = std::filesystem::last_write_time(cache_files()[0]);
  check(*tokenize(*rows, tokenizer_, options));
  EXPECT_EQ(std::filesystem::last_write_time(cache_files()[0]), written);

  tokenize(*csv(std::string(kBoats) + "a,b,no\n", {"text", "more"}, "label"), tokenizer_, options);
  EXPECT_EQ(cache_files().size(), 2U);
  options.max_length = 100;
  tokenize(*rows, tokenizer_, options);
  EXPECT_EQ(cache_files().size(), 3U);
  SmallFolder other;
  tokenize(*rows, other.put("vocab.txt", lines(small_bert_tokens()) + "new\n").load(), options);
  EXPECT_EQ(cache_files().size(), 4U);
}

TEST_F(Tokenize, DamagedCachesAreMadeAnew) {
  const auto rows = csv(kBoats, {"text"}, "label");
  tokenize(*rows, tokenizer_, cached());
  const std::string path = cache_files().at(0);
  const std::string whole = read_file(path);
  std::string altered = whole;
  altered[4] = static_cast<char>(altered[4] ^ 1);
  for (const std::string& content : {std::string(), std::string("x"), whole.substr(0, whole.size() - 1), altered}) {
    write_text(path, content);
    const auto dataset = tokenize(*rows, tokenizer_, cached());
    EXPECT_EQ(values_of(dataset->get(0).at("input_ids")), (Ids{2, 5, 6, 7, 3}));
    EXPECT_EQ(read_file(path), whole);
  }
}

TEST_F(Tokenize, EveryAlteredByteOfATableIsFound) {
  const std::string path = folder_ / "table.bin";
  TokenTableWriter writer(path, "key");
  writer.add(tokenizer_.encode_pair("the boats", "a"), 1);
  writer.add(tokenizer_.encode_pair("b", "c"), 0);
  const TokenTable table = writer.finish();
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.sample(1).count, 5);
  EXPECT_EQ(table.label(0), 1);
  EXPECT_TRUE(table.has_token_types());
  expect_error("of other texts", [&] { TokenTable::open(path, "kez"); });
  const std::string whole = read_file(path);
  const std::string other = folder_ / "other.bin";
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 0x10);
    write_text(other, altered);
    EXPECT_THROW(TokenTable::open(other, "key"), Error) << at;
    write_text(other, whole.substr(0, at));
    EXPECT_THROW(TokenTable::open(other, "key"), Error) << at;
  }
  write_text(other, whole);
  EXPECT_EQ(TokenTable::open(other, "key").num_tokens(), table.num_tokens());
}

TEST_F(Tokenize, RanksThatShareTheCacheAgree) {
  std::string content = "text\n";
  for (int i = 0; i < 5000; ++i) content += i % 3 == 0 ? "the boats\n" : "a b c !\n";
  const auto rows = csv(content, {"text"});
  std::vector<std::thread> ranks;
  std::vector<std::int64_t> tokens(4);
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    ranks.emplace_back([&, rank] { tokens[rank] = tokenize(*rows, tokenizer_, cached())->num_tokens(); });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(tokens, (Ids(4, 1667 * 5 + 3333 * 6)));
  EXPECT_EQ(cache_files().size(), 1U);
}

}  // namespace
}  // namespace lockstep
