#include "secret.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace afo::psplus::testing {
namespace {

std::string Text(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

std::string Text(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

void SetName(X509_NAME* name, const std::string& text) {
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text.data()),
                             static_cast<int>(text.size()), -1, 0);
}

// As in a job's process: nothing is asked of OpenSSL before a context is.
EVP_PKEY* NewKey() {
  TlsContext::Of(TlsEnd::kServer, {});
  return EVP_EC_gen("P-256");
}

X509* Signed(EVP_PKEY* key, EVP_PKEY* by, const std::string& subject, int extension, const std::string& value) {
  static long serial = 1;
  X509* made = X509_new();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made), 3600);
  SetName(X509_get_subject_name(made), subject);
  X509_NAME* issuer = X509_NAME_new();
  SetName(issuer, "afo job");
  X509_set_issuer_name(made, issuer);
  X509_NAME_free(issuer);
  X509_set_pubkey(made, key);
  X509_EXTENSION* made_extension = X509V3_EXT_conf_nid(nullptr, nullptr, extension, value.c_str());
  X509_add_ext(made, made_extension, -1);
  X509_EXTENSION_free(made_extension);
  X509_sign(made, by, EVP_sha256());
  return made;
}

}  // namespace

struct Authority::Held {
  EVP_PKEY* key = NewKey();
  X509* certificate = Signed(key, key, "afo job", NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
};

Authority::Authority() : held_(std::make_unique<Held>()) {}

Authority::~Authority() {
  X509_free(held_->certificate);
  EVP_PKEY_free(held_->key);
}

TlsTexts Authority::End(const std::string& name) const {
  EVP_PKEY* key = NewKey();
  X509* certificate = Signed(key, held_->key, name, NID_subject_alt_name, "DNS:" + name);
  TlsTexts texts{Text(held_->certificate), Text(key), Text(certificate)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return texts;
}

const Authority& TheAuthority() {
  static const Authority authority;
  return authority;
}

const TlsTexts& Secret() {
  static const TlsTexts texts = TheAuthority().End();
  return texts;
}

}  // namespace afo::psplus::testing
