#include "lockstep/data/text/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/data/text/small_tokenizers.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using Ids = std::vector<TokenId>;

TEST(Tokenizer, EncodesASingleText) {
  EncodeOptions options;
  options.offsets = true;
  const Encoding encoding = small_bert().encode("The boats, not here!", options);
  EXPECT_EQ(encoding.ids, (Ids{2, 5, 6, 7, 11, 9, 10, 13, 3}));
  EXPECT_EQ(encoding.token_type_ids, std::vector<std::int32_t>(9, 0));
  EXPECT_EQ(encoding.attention_mask, std::vector<std::int32_t>(9, 1));
  EXPECT_EQ(encoding.special_tokens_mask, (std::vector<std::int32_t>{1, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(encoding.offsets,
            (std::vector<CharSpan>{{0, 0}, {0, 3}, {4, 8}, {8, 9}, {9, 10}, {11, 14}, {15, 19}, {19, 20}, {0, 0}}));
  EXPECT_TRUE(small_bert().encode("The boats, not here!").offsets.empty());
}

TEST(Tokenizer, EncodesAPair) {
  const Encoding encoding = small_bert().encode_pair("the boat", "is here");
  EXPECT_EQ(encoding.ids, (Ids{2, 5, 6, 3, 8, 10, 3}));
  EXPECT_EQ(encoding.token_type_ids, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(encoding.special_tokens_mask, (std::vector<std::int32_t>{1, 0, 0, 1, 0, 0, 1}));
}

TEST(Tokenizer, EmptyTextIsSpecialTokensAlone) {
  EXPECT_EQ(small_bert().encode("").ids, (Ids{2, 3}));
  EXPECT_EQ(small_bert().encode_pair("", "").ids, (Ids{2, 3, 3}));
  EXPECT_EQ(inner_ids(small_bert(), ""), Ids{});
  EXPECT_EQ(inner_ids(small_bert(), " \t\n "), Ids{});
}

TEST(Tokenizer, WordsItCannotCutAreUnknown) {
  EXPECT_EQ(inner_ids(small_bert(), "the boatx s"), (Ids{5, 1, 1}));
  // 100 characters are the longest word.
  EXPECT_EQ(inner_ids(small_bert(), "a" + std::string(99, 'b')).size(), 100U);
  EXPECT_EQ(inner_ids(small_bert(), "a" + std::string(100, 'b')), Ids{1});
}

TEST(Tokenizer, InvalidBytesAreReplaced) {
  // BERT's clean-up drops U+FFFD, and NUL with it.
  EXPECT_EQ(inner_ids(small_bert(),
                      "bo\xFF"
                      "at"),
            Ids{6});
  EXPECT_EQ(inner_ids(small_bert(), std::string("bo\0at", 5)), Ids{6});
  EXPECT_EQ(inner_ids(small_bert(), "\xE2\x82"), Ids{});
}

struct TruncationCase {
  const char* name;
  std::int64_t max_length;
  TruncationStrategy strategy;
  SequenceSide side;
  Ids want_single;  // of "the boat is here", 4 tokens
  Ids want_pair;    // of that text and "not a", 2 tokens
};

class TruncationTable : public ::testing::TestWithParam<TruncationCase> {};

TEST_P(TruncationTable, CutsWhatItShould) {
  const TruncationCase& c = GetParam();
  EncodeOptions options;
  options.truncation = Truncation{c.max_length, c.strategy, c.side};
  const Tokenizer tokenizer = small_bert();
  if (c.strategy != TruncationStrategy::OnlySecond) {
    EXPECT_EQ(tokenizer.encode("the boat is here", options).ids, c.want_single);
  }
  EXPECT_EQ(tokenizer.encode_pair("the boat is here", "not a", options).ids, c.want_pair);
}

constexpr auto kLongest = TruncationStrategy::LongestFirst;
constexpr auto kFirst = TruncationStrategy::OnlyFirst;
constexpr auto kSecond = TruncationStrategy::OnlySecond;
constexpr auto kRight = SequenceSide::Right;
constexpr auto kLeft = SequenceSide::Left;

// Ids: the 5, boat 6, is 8, here 10, not 9, a 14; [CLS] 2, [SEP] 3.
INSTANTIATE_TEST_SUITE_P(
    Table, TruncationTable,
    ::testing::Values(
        TruncationCase{"enough_room", 9, kLongest, kRight, {2, 5, 6, 8, 10, 3}, {2, 5, 6, 8, 10, 3, 9, 14, 3}},
        TruncationCase{"longer_one_gives", 8, kLongest, kRight, {2, 5, 6, 8, 10, 3}, {2, 5, 6, 8, 3, 9, 14, 3}},
        TruncationCase{"then_both_give", 6, kLongest, kRight, {2, 5, 6, 8, 10, 3}, {2, 5, 6, 3, 9, 3}},
        TruncationCase{"from_the_left", 5, kLongest, kLeft, {2, 6, 8, 10, 3}, {2, 10, 3, 14, 3}},
        TruncationCase{"nothing_left", 3, kLongest, kRight, {2, 5, 3}, {2, 3, 3}},
        TruncationCase{"first_only", 6, kFirst, kRight, {2, 5, 6, 8, 10, 3}, {2, 5, 3, 9, 14, 3}},
        TruncationCase{"second_only", 8, kSecond, kRight, {}, {2, 5, 6, 8, 10, 3, 9, 3}},
        TruncationCase{"second_only_left", 8, kSecond, kLeft, {}, {2, 5, 6, 8, 10, 3, 14, 3}}),
    [](const auto& test) { return test.param.name; });

TEST(Truncation, SaysWhyItCannot) {
  const Tokenizer tokenizer = small_bert();
  const auto encode = [&](std::int64_t max_length, TruncationStrategy strategy, bool pair) {
    EncodeOptions options;
    options.truncation = Truncation{max_length, strategy, SequenceSide::Right};
    pair ? tokenizer.encode_pair("the boat is here", "not a", options) : tokenizer.encode("the boat is here", options);
  };
  expect_error("leaves no room for the 3 special tokens", [&] { encode(2, kLongest, true); });
  expect_error("the first one, the only one that may be shortened, has only 4", [&] { encode(5, kFirst, true); });
  expect_error("the second one, the only one that may be shortened, has only 2", [&] { encode(7, kSecond, true); });
  expect_error("there is only one", [&] { encode(4, kSecond, false); });
  expect_error("max_length -1", [&] { encode(-1, kLongest, false); });
}

TEST(Padding, SingleTextToALength) {
  EncodeOptions options;
  options.offsets = true;
  options.padding = Padding{PaddingMode::MaxLength, 5, 0, SequenceSide::Right};
  const Encoding right = small_bert().encode("boat", options);
  EXPECT_EQ(right.ids, (Ids{2, 6, 3, 0, 0}));
  EXPECT_EQ(right.attention_mask, (std::vector<std::int32_t>{1, 1, 1, 0, 0}));
  EXPECT_EQ(right.special_tokens_mask, (std::vector<std::int32_t>{1, 0, 1, 1, 1}));
  EXPECT_EQ(right.token_type_ids, (std::vector<std::int32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(right.offsets, (std::vector<CharSpan>{{0, 0}, {0, 4}, {0, 0}, {0, 0}, {0, 0}}));
  options.padding->side = SequenceSide::Left;
  EXPECT_EQ(small_bert().encode("boat", options).ids, (Ids{0, 0, 2, 6, 3}));
  EXPECT_EQ(small_bert().encode("boat", options).attention_mask, (std::vector<std::int32_t>{0, 0, 1, 1, 1}));
  options.padding->max_length = 2;  // a longer text stays as it is
  EXPECT_EQ(small_bert().encode("boat", options).ids, (Ids{2, 6, 3}));
}

TEST(Padding, BatchToItsLongestAndToAMultiple) {
  EncodeOptions options;
  options.padding = Padding{PaddingMode::Longest, 0, 0, SequenceSide::Right};
  const auto longest = small_bert().encode_batch({"boat", "the boat is", ""}, options);
  EXPECT_EQ(longest[0].ids, (Ids{2, 6, 3, 0, 0}));
  EXPECT_EQ(longest[1].ids, (Ids{2, 5, 6, 8, 3}));
  EXPECT_EQ(longest[2].ids, (Ids{2, 3, 0, 0, 0}));
  options.padding->multiple_of = 8;
  for (const Encoding& encoding : small_bert().encode_batch({"boat", "the boat is"}, options)) {
    EXPECT_EQ(encoding.ids.size(), 8U);
    EXPECT_EQ(encoding.attention_mask.size(), 8U);
  }
}

TEST(Padding, NeedsAToken) {
  const Tokenizer tokenizer = SmallFolder().put("vocab.txt", lines({"[UNK]", "[CLS]", "[SEP]", "a"})).load();
  EncodeOptions options;
  options.padding.emplace();
  expect_error("has no padding token", [&] { tokenizer.encode("a", options); });
  Tokenizer padded = tokenizer;
  padded.set_pad_token("[SEP]");
  options.padding = Padding{PaddingMode::MaxLength, 4, 0, SequenceSide::Right};
  EXPECT_EQ(padded.encode("a", options).ids, (Ids{1, 3, 2, 2}));
  expect_error("'[PAD]' is not in the vocabulary", [&] { padded.set_pad_token("[PAD]"); });
  options.padding->max_length = std::int64_t{1} << 40;
  expect_error("cannot pad to max_length 1099511627776", [&] { padded.encode("a", options); });
}

TEST(Batch, IsTheSameForAnyNumberOfThreads) {
  const Tokenizer tokenizer = small_bert();
  std::vector<std::string> storage;
  for (int i = 0; i < 1000; ++i) {
    std::string text;
    for (int k = 0; k < i % 37; ++k)
      text += small_bert_tokens()[static_cast<std::size_t>(5 + (i * 7 + k * 3) % 19)] + " ";
    storage.push_back(text);
  }
  const std::vector<std::string_view> texts(storage.begin(), storage.end());
  std::vector<Encoding> one_by_one;
  for (const std::string_view text : texts) one_by_one.push_back(tokenizer.encode(text));
  for (const int threads : {1, 2, 7, 0}) {
    const auto batch = tokenizer.encode_batch(texts, {}, threads);
    ASSERT_EQ(batch.size(), texts.size());
    for (std::size_t i = 0; i < batch.size(); ++i) EXPECT_EQ(batch[i].ids, one_by_one[i].ids) << i;
  }
  EXPECT_TRUE(tokenizer.encode_batch({}, {}).empty());
}

TEST(Batch, PairsAndErrorsNameTheText) {
  const Tokenizer tokenizer = small_bert();
  std::vector<std::pair<std::string_view, std::string_view>> pairs(300, {"the boat", "is here"});
  const auto batch = tokenizer.encode_pair_batch(pairs, {}, 3);
  for (const Encoding& encoding : batch) EXPECT_EQ(encoding.ids, (Ids{2, 5, 6, 3, 8, 10, 3}));
  pairs[217] = pairs[290] = {"the boat is not here", ""};
  EncodeOptions options;
  options.truncation = Truncation{7, kSecond, kRight};
  for (const int threads : {1, 4}) {
    expect_error("text 217 of the batch", [&] { tokenizer.encode_pair_batch(pairs, options, threads); });
  }
}

TEST(Threads, ShareOneTokenizer) {
  const Tokenizer tokenizer = small_bert();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&tokenizer] {
      for (int i = 0; i < 300; ++i) {
        EXPECT_EQ(tokenizer.encode("the boats, はい é здесь").ids.size(), 9U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Decode, JoinsPiecesAndCleansUp) {
  const Tokenizer tokenizer = small_bert();
  const Ids ids = tokenizer.encode("The boats, not here! Don't.").ids;
  EXPECT_EQ(tokenizer.decode(ids), "[CLS] the boats, not here! don ' t. [SEP]");
  DecodeOptions options;
  options.skip_special_tokens = true;
  EXPECT_EQ(tokenizer.decode(ids, options), "the boats, not here! don ' t.");
  options.clean_up = true;
  EXPECT_EQ(tokenizer.decode(ids, options), "the boats, not here! don't.");
  options.clean_up = false;
  EXPECT_EQ(tokenizer.decode(ids, options), "the boats , not here ! don ' t .");
  EXPECT_EQ(tokenizer.decode({}), "");
}

TEST(Decode, RefusesUnknownIds) {
  expect_error("id 24 at position 1 is not in the vocabulary, whose ids end at 23", [] {
    small_bert().decode({5, 24});
  });
  expect_error("id -1 at position 0", [] { small_bert().decode({-1}); });
  expect_error("id 99 is not in the vocabulary", [] { small_bert().id_to_token(99); });
}

TEST(SpecialTokens, AreFoundInTextAndByName) {
  const Tokenizer tokenizer = small_bert();
  EXPECT_EQ(inner_ids(tokenizer, "the[MASK]here [SEP]"), (Ids{5, 4, 10, 3}));
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_EQ(tokenizer.unk_id(), 1);
  EXPECT_EQ(tokenizer.cls_id(), 2);
  EXPECT_EQ(tokenizer.sep_id(), 3);
  EXPECT_EQ(tokenizer.mask_id(), 4);
  EXPECT_EQ(tokenizer.eos_id(), std::nullopt);
  EXPECT_EQ(tokenizer.vocab_size(), 24);
  EXPECT_EQ(tokenizer.token_to_id("##s"), 7);
  EXPECT_EQ(tokenizer.token_to_id("nothing"), std::nullopt);
}

TEST(NeverSplit, KeepsWordsBetweenSpacesWhole) {
  const SmallFolder folder;
  write_text(folder / "vocab.txt", lines(small_bert_tokens()));
  BertTokenizerOptions options;
  options.never_split = {"Boat", "don't"};
  const Tokenizer tokenizer = load_bert_vocabulary(folder / "vocab.txt", options);
  EXPECT_EQ(inner_ids(tokenizer, "Boat boat Boats Boat, Boat"), (Ids{23, 6, 6, 7, 6, 11, 23}));
  // The vocabulary does not contain it, so as a whole it is unknown.
  EXPECT_EQ(inner_ids(tokenizer, "don't don't!"), (Ids{1, 20, 21, 22, 13}));
  const TemporaryFolder saved;
  tokenizer.save(saved.path());
  EXPECT_EQ(inner_ids(load_tokenizer(saved.path()), "Boat boat don't"), (Ids{23, 6, 1}));
}

}  // namespace
}  // namespace lockstep
