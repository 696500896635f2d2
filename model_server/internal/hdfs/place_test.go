package hdfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/colinmarc/hdfs/v2/hadoopconf"
)

func TestAURLIsAClusterAndAPath(t *testing.T) {
	for url, expected := range map[string][2]string{
		"hdfs://ns/models/ctr": {"ns", "/models/ctr"}, "hdfs://nn:8020/a b/100%/": {"nn:8020", "/a b/100%"}, "hdfs:///models": {"", "/models"},
	} {
		if cluster, directory, err := Split(url); err != nil || cluster != expected[0] || directory != expected[1] {
			t.Errorf("%s: %q %q %v", url, cluster, directory, err)
		}
	}
	for _, url := range []string{"hdfs://ns", "hdfs://ns/", "hdfs://ns/a/../b", "hdfs://user@ns/a", "webhdfs://ns/a", "/a"} {
		if _, _, err := Split(url); err == nil || !strings.Contains(err.Error(), "allowed: hdfs://NAMESERVICE/PATH") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestTheNameNodesOfAClusterAreThoseOfTheConfiguration(t *testing.T) {
	ha := hadoopconf.HadoopConf{
		"fs.defaultFS": "hdfs://ns", "dfs.nameservices": "ns,other", "dfs.ha.namenodes.ns": "a, b",
		"dfs.namenode.rpc-address.ns.a": "one:9000", "dfs.namenode.rpc-address.ns.b": "two:9000", "dfs.ha.namenodes.other": "c",
	}
	for _, each := range []struct {
		conf     hadoopconf.HadoopConf
		cluster  string
		expected []string
		says     string
	}{
		{ha, "ns", []string{"one:9000", "two:9000"}, ""},
		{ha, "", []string{"one:9000", "two:9000"}, ""},
		{ha, "elsewhere:8020", []string{"elsewhere:8020"}, ""},
		{ha, "elsewhere", []string{"elsewhere:8020"}, ""},
		{ha, "other", nil, "has no dfs.namenode.rpc-address.other.c"},
		{nil, "", nil, `fs.defaultFS of conf is ""`},
		{hadoopconf.HadoopConf{"fs.defaultFS": "viewfs://x"}, "", nil, `is "viewfs://x"; write hdfs://NAMESERVICE/PATH`},
		{hadoopconf.HadoopConf{"dfs.nameservices": "ns"}, "ns", nil, "has no dfs.ha.namenodes.ns"},
		{hadoopconf.HadoopConf{"dfs.namenode.rpc-address.ns": "${host}:1"}, "ns", nil, "are not followed here"},
	} {
		found, err := namenodes(each.conf, "conf", each.cluster)
		if !slices.Equal(found, each.expected) || (err != nil) != (each.says != "") || err != nil && !strings.Contains(err.Error(), each.says) {
			t.Errorf("%q: %v, %v; expected %v %q", each.cluster, found, err, each.expected, each.says)
		}
	}
}

func TestAClusterWithKerberosNeedsTicketsOrAKeytab(t *testing.T) {
	directory := t.TempDir()
	write := func(name, text string) string {
		at := filepath.Join(directory, name)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	write("core-site.xml", "<configuration><property><name>fs.defaultFS</name><value> hdfs://nn:8020 </value></property>"+
		"<property><name>hadoop.security.authentication</name><value>kerberos</value></property></configuration>")
	t.Setenv("HADOOP_CONF_DIR", directory)
	t.Setenv("KRB5_CONFIG", filepath.Join(directory, "none"))
	refuses := func(says string, by *Keytab) {
		t.Helper()
		if _, err := clientOptions("", by); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; expected %q", err, says)
		}
	}
	refuses("set KRB5_CONFIG", nil)
	t.Setenv("KRB5_CONFIG", write("krb5.conf", "[libdefaults]\n  default_realm = EXAMPLE.COM\n"))
	t.Setenv("KRB5CCNAME", "FILE:"+filepath.Join(directory, "tickets"))
	refuses("run `kinit`, or name kerberos.principal", nil)
	write("tickets", "junk")
	refuses("cannot be read", nil)
	t.Setenv("KRB5CCNAME", "KEYRING:persistent:1")
	refuses("tickets are read from files here", nil)
	refuses("kerberos.keytab", &Keytab{"afo@EXAMPLE.COM", filepath.Join(directory, "none.keytab")})
}

func TestWhoAsksWithoutKerberosIsTheHadoopUser(t *testing.T) {
	t.Setenv("HADOOP_CONF_DIR", "")
	t.Setenv("HADOOP_HOME", "")
	t.Setenv("HADOOP_USER_NAME", "ranking")
	options, err := clientOptions("nn:9000", nil)
	if err != nil || options.User != "ranking" || !slices.Equal(options.Addresses, []string{"nn:9000"}) {
		t.Errorf("%+v, %v", options, err)
	}
}

func TestTheCachesOfPathsAreApart(t *testing.T) {
	names := map[string]bool{}
	for _, url := range []string{"hdfs://ns/a/b", "hdfs://ns/a_b", "hdfs://ns/../..", "hdfs:///" + strings.Repeat("x", 500), "hdfs:///ü"} {
		name := CacheName(url)
		if names[name] || strings.ContainsAny(name, "/") || strings.HasPrefix(name, ".") || len(name) > 100 {
			t.Error(name)
		}
		names[name] = true
	}
}

func TestAProtectionThatCannotBeReadIsRefused(t *testing.T) {
	directory := t.TempDir()
	t.Setenv("HADOOP_CONF_DIR", directory)
	for value, refused := range map[string]bool{"integrity": true, "authentication,integrity": true, "privacy": false, "authentication": false} {
		text := "<configuration><property><name>dfs.data.transfer.protection</name><value>" + value + "</value></property></configuration>"
		if err := os.WriteFile(filepath.Join(directory, "hdfs-site.xml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := clientOptions("nn", nil); (err != nil && strings.Contains(err.Error(), "cannot be read here")) != refused {
			t.Errorf("%s: %v", value, err)
		}
	}
}
