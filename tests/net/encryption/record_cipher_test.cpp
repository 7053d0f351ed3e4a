#include "lockstep/net/record_cipher.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/net/hmac.h"

namespace lockstep {
namespace {

using Direction = RecordCipher::Direction;

const std::string kRecordKey(32, 'k');

std::string seal(RecordCipher& cipher, const std::string& header, const std::vector<std::string>& texts) {
  std::vector<iovec> parts;
  std::size_t bytes = 0;
  for (const std::string& text : texts) {
    parts.push_back({const_cast<char*>(text.data()), text.size()});
    bytes += text.size();
  }
  std::string out(bytes + RecordCipher::kTagBytes, '\0');
  cipher.seal(header, parts.data(), parts.size(), out.data());
  return out;
}

std::optional<std::string> open(RecordCipher& cipher, const std::string& header, const std::string& sealed) {
  std::string out(sealed.size() - RecordCipher::kTagBytes, '\0');
  if (!cipher.open(header, sealed, out.data())) return std::nullopt;
  return out;
}

// Test cases 13 and 14 of McGrew and Viega, "The Galois/Counter Mode of Operation": key, nonce and text of zeros.
TEST(RecordCipherTest, FirstRecordIsThePublishedOne) {
  RecordCipher empty(Direction::Seal, std::string(32, '\0'));
  EXPECT_EQ(to_hex(seal(empty, "", {})), "530f8afbc74536b9a963b4f1c4cb738b");
  RecordCipher block(Direction::Seal, std::string(32, '\0'));
  EXPECT_EQ(to_hex(seal(block, "", {std::string(16, '\0')})),
            "cea7403d4d606b6e074ec5d3baf39d18"
            "d0d1c8a799996bf0265b98b5d48ab919");
}

TEST(RecordCipherTest, OpensWhatTheOtherSideSealed) {
  RecordCipher seals(Direction::Seal, kRecordKey);
  RecordCipher opens(Direction::Open, kRecordKey);
  EXPECT_EQ(open(opens, "head", seal(seals, "head", {"one", "", " text"})), "one text");
  EXPECT_EQ(open(opens, "", seal(seals, "", {})), "");
  std::string in_place = seal(seals, "head", {"another text"});
  EXPECT_TRUE(opens.open("head", in_place, in_place.data()));
  EXPECT_EQ(in_place.substr(0, 12), "another text");
}

TEST(RecordCipherTest, RefusesARecordThatWasChangedAnywhere) {
  RecordCipher seals(Direction::Seal, kRecordKey);
  const std::string sealed = seal(seals, "head", {"text"});
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    RecordCipher opens(Direction::Open, kRecordKey);
    EXPECT_FALSE(open(opens, "head", changed)) << i;
  }
  RecordCipher other_header(Direction::Open, kRecordKey);
  EXPECT_FALSE(open(other_header, "held", sealed));
  RecordCipher other_key(Direction::Open, std::string(32, 'j'));
  EXPECT_FALSE(open(other_key, "head", sealed));
  RecordCipher cut(Direction::Open, kRecordKey);
  EXPECT_FALSE(open(cut, "head", sealed.substr(1)));
}

TEST(RecordCipherTest, RefusesARecordThatIsRepeatedLeftOutOrMoved) {
  RecordCipher seals(Direction::Seal, kRecordKey);
  const std::string first = seal(seals, "head", {"text"});
  const std::string second = seal(seals, "head", {"text"});
  EXPECT_NE(first, second) << "one nonce was used twice";
  RecordCipher repeated(Direction::Open, kRecordKey);
  EXPECT_TRUE(open(repeated, "head", first));
  EXPECT_FALSE(open(repeated, "head", first));
  RecordCipher skipped(Direction::Open, kRecordKey);
  EXPECT_FALSE(open(skipped, "head", second));
}

TEST(RecordCipherTest, ChangesItsKeyOnBothSides) {
  RecordCipher seals(Direction::Seal, kRecordKey, 2);
  RecordCipher opens(Direction::Open, kRecordKey, 2);
  std::vector<std::string> sealed;
  for (int record = 0; record < 5; ++record) {
    sealed.push_back(seal(seals, "", {"text"}));
    EXPECT_EQ(open(opens, "", sealed.back()), "text") << record;
  }
  // Record 2 has nonce 0 again, under the next key.
  RecordCipher next(Direction::Seal, hmac_sha256(kRecordKey, {"lockstep records: next key"}));
  EXPECT_EQ(seal(next, "", {"text"}), sealed[2]);
  EXPECT_NE(sealed[2], sealed[0]);
}

}  // namespace
}  // namespace lockstep
