#include "lockstep/data/idx.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/base/files/atomic_file.h"
#include "tests/data/gzip_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using namespace std::string_literals;

at::Tensor read(const std::string& content) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", content);
  return read_idx(folder / "file");
}

TEST(Idx, ReadsEveryType) {
  EXPECT_TRUE(read("\0\0\x08\x01\0\0\0\x02\x01\xff"s).equal(at::tensor({1, 255}, at::kByte)));
  EXPECT_TRUE(read("\0\0\x09\x01\0\0\0\x02\x01\xff"s).equal(at::tensor({1, -1}, at::kChar)));
  EXPECT_TRUE(read("\0\0\x0B\x01\0\0\0\x02\x01\x02\xff\xfe"s).equal(at::tensor({258, -2}, at::kShort)));
  EXPECT_TRUE(read("\0\0\x0C\x01\0\0\0\x01\x01\x02\x03\x04"s).equal(at::tensor({0x01020304}, at::kInt)));
  EXPECT_TRUE(read("\0\0\x0D\x01\0\0\0\x01\xc0\x20\0\0"s).equal(at::tensor({-2.5}, at::kFloat)));
  EXPECT_TRUE(read("\0\0\x0E\x01\0\0\0\x01\x3f\xf8\0\0\0\0\0\0"s).equal(at::tensor({1.5}, at::kDouble)));
}

TEST(Idx, TheLastDimensionRunsFastest) {
  const at::Tensor want = at::tensor({1, 2, 3, 4, 5, 6}, at::kByte).view({2, 1, 3});
  const std::string bytes = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03\x01\x02\x03\x04\x05\x06"s;
  EXPECT_TRUE(read(bytes).equal(want));
  EXPECT_TRUE(read(gzip_bytes(bytes)).equal(want));
}

TEST(Idx, ReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  for (const at::ScalarType dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kFloat, at::kDouble}) {
    const at::Tensor tensor = at::arange(24, at::kInt).view({4, 3, 2}).to(dtype).transpose(0, 2);
    write_idx(folder / "file", tensor);
    EXPECT_TRUE(read_idx(folder / "file").equal(tensor)) << dtype;
  }
  write_idx(folder / "empty", at::zeros({0, 3}, at::kByte));
  EXPECT_EQ(read_idx(folder / "empty").sizes(), (std::vector<std::int64_t>{0, 3}));
}

struct BadFile {
  const char* name;
  std::string content;
  const char* error;
  friend std::ostream& operator<<(std::ostream& out, const BadFile& b) { return out << b.name; }
};
class BadIdx : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadIdx, IsAnErrorThatSaysWhatWasExpected) {
  expect_error(GetParam().error, [] { read(GetParam().content); });
  if (!GetParam().content.empty()) expect_error(GetParam().error, [] { read(gzip_bytes(GetParam().content)); });
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadIdx,
    ::testing::Values(
        BadFile{"empty", "",
                "this is not an IDX file: a magic number like 00 00 08 03 was expected, but 0 bytes were found"},
        BadFile{"short_magic", "\0\0\x08"s, "3 bytes 00 00 08 were found"},
        BadFile{"png", "\x89PNG\r\n\x1a\n"s, "4 bytes 89 50 4e 47 were found"},
        BadFile{"unknown_type", "\0\0\x0A\x01\0\0\0\x01\x01"s, "4 bytes 00 00 0a 01 were found"},
        BadFile{"no_dimensions", "\0\0\x08\0\x01"s, "4 bytes 00 00 08 00 were found"},
        BadFile{"short_sizes", "\0\0\x08\x03\0\0\0\x01\0\0"s,
                "ends in its header: 12 bytes of sizes for 3 dimensions were expected, but 6 were found"},
        BadFile{"truncated", "\0\0\x08\x01\0\0\0\x03\x01\x02"s,
                "the IDX file is truncated: 3 bytes for [3] were expected after the header, but 2 were found"},
        BadFile{"trailing", "\0\0\x08\x01\0\0\0\x02\x01\x02\x03"s, "continues after its last element: 2 bytes for [2]"},
        BadFile{"huge", "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s,
                "promises [4294967295, 4294967295, 4294967295] elements of 1 bytes, more than the file can hold"},
        BadFile{"huge_times_zero", "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\x01"s,
                "continues after its last element: 0 bytes"},
        BadFile{"many_dimensions_times_zero", "\0\0\x08\xc8"s + std::string(796, '\xff') + std::string(4, '\0'),
                "promises no elements, in 200 dimensions whose product overflows"}),
    [](const auto& test) { return test.param.name; });

// The file is whole, and its size is not what is wrong with it.
TEST(Idx, AGzipFileAboveTheLimitNamesTheVariableThatRaisesIt) {
  const TemporaryFolder folder;
  std::string content = "\0\0\x08\x01\0\x20\0\0"s + std::string(std::size_t{2} << 20, '\0');
  for (std::size_t i = 8; i < content.size(); i += 64) content[i] = static_cast<char>(i >> 6);
  write_file_atomically(folder / "file.gz", gzip_bytes(content));
  const auto open = [&] { return read_idx(folder / "file.gz"); };
  ::setenv("LOCKSTEP_INFLATE_LIMIT_MB", "1", 1);
  expect_error("promises [2097152] elements of 1 bytes, more than a gzip file of this size can decompress to", open);
  expect_error("(1048576 bytes)", open);
  expect_error("raise LOCKSTEP_INFLATE_LIMIT_MB", open);
  ::setenv("LOCKSTEP_INFLATE_LIMIT_MB", "2", 1);
  EXPECT_EQ(open().numel(), 2 << 20);
  ::unsetenv("LOCKSTEP_INFLATE_LIMIT_MB");
}

TEST(Idx, RefusesToWriteWhatItHasNoTypeFor) {
  const TemporaryFolder folder;
  expect_error("IDX cannot hold a tensor Long [2]", [&] { write_idx(folder / "f", at::zeros({2}, at::kLong)); });
  expect_error("IDX cannot hold a tensor Byte []", [&] { write_idx(folder / "f", at::scalar_tensor(1, at::kByte)); });
}

}  // namespace
}  // namespace lockstep
