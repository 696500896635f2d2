package hdfs

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strings"

	colinmarc "github.com/colinmarc/hdfs/v2"
	"github.com/colinmarc/hdfs/v2/hadoopconf"
)

const (
	scheme = "hdfs://"
	// usualPort is a NameNode's where an address names none.
	usualPort = "8020"
)

// IsURL says whether a base_path is of HDFS.
func IsURL(base string) bool { return strings.HasPrefix(base, scheme) }

// Split takes a URL apart: the cluster, "" for that of fs.defaultFS, and the path. HDFS' names have no escapes.
func Split(url string) (cluster, directory string, err error) {
	cluster, directory, _ = strings.Cut(strings.TrimPrefix(url, scheme), "/")
	directory = "/" + directory
	if !IsURL(url) || strings.ContainsAny(cluster, "@?#\\ ") || directory == "/" || strings.Contains(directory+"/", "/../") {
		return "", "", fmt.Errorf("base_path is %q; allowed: hdfs://NAMESERVICE/PATH, hdfs://HOST:PORT/PATH or hdfs:///PATH", url)
	}
	return cluster, path.Clean(directory), nil
}

// NewClient reads a cluster as the Hadoop configuration has it; kerberos is nil, or who this server is.
func NewClient(cluster string, kerberos *Keytab) *Client {
	return &Client{options: func() (colinmarc.ClientOptions, error) { return clientOptions(cluster, kerberos) }}
}

func clientOptions(cluster string, kerberos *Keytab) (colinmarc.ClientOptions, error) {
	conf, from, err := configuration()
	if err != nil {
		return colinmarc.ClientOptions{}, err
	}
	addresses, err := namenodes(conf, from, cluster)
	if err != nil {
		return colinmarc.ClientOptions{}, err
	}
	for name := range conf {
		if strings.HasPrefix(name, "fs.default") {
			delete(conf, name) // addresses are known, and those in other words than URLs end the library
		}
	}
	options := colinmarc.ClientOptionsFromConf(conf)
	options.Addresses = addresses
	if options.DataTransferProtection == colinmarc.DataTransferProtectionIntegrity {
		// Its reader loses bytes where a message spans two of SASL's; that of AES does not.
		return options, fmt.Errorf("dfs.data.transfer.protection of %s is integrity, which cannot be read here; set authentication, or privacy"+
			" with AES/CTR/NoPadding for dfs.encrypt.data.transfer.cipher.suites, in a configuration of this server's own, as far as the"+
			" DataNodes allow it", from)
	}
	if options.KerberosClient != nil {
		options.KerberosClient, err = login(kerberos)
	} else {
		options.User, err = userName()
	}
	return options, err
}

// configuration is what $HADOOP_CONF_DIR holds, else $HADOOP_HOME/etc/hadoop; nothing where neither is set.
func configuration() (hadoopconf.HadoopConf, string, error) {
	directory := os.Getenv("HADOOP_CONF_DIR")
	if home := os.Getenv("HADOOP_HOME"); directory == "" && home != "" {
		directory = filepath.Join(home, "etc", "hadoop")
	}
	if directory == "" {
		return hadoopconf.HadoopConf{}, "$HADOOP_CONF_DIR, which is not set,", nil
	}
	conf, err := hadoopconf.Load(directory)
	if err != nil {
		return nil, "", fmt.Errorf("the Hadoop configuration cannot be read: %w", err)
	}
	trimmed := hadoopconf.HadoopConf{}
	for name, value := range conf {
		trimmed[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return trimmed, directory, nil
}

// namenodes are the addresses of a cluster: of each NameNode of a nameservice, or of the one that it names itself.
func namenodes(conf hadoopconf.HadoopConf, from, cluster string) ([]string, error) {
	if cluster == "" {
		named, ok := conf["fs.defaultFS"]
		if !ok {
			named = conf["fs.default.name"]
		}
		if cluster, _, _ = strings.Cut(strings.TrimPrefix(named, scheme), "/"); !IsURL(named) || cluster == "" {
			return nil, fmt.Errorf("base_path names no cluster, and fs.defaultFS of %s is %q; write hdfs://NAMESERVICE/PATH", from, named)
		}
	}
	if ids, ok := conf["dfs.ha.namenodes."+cluster]; ok {
		return ofNameservice(conf, from, cluster, ids)
	}
	if address, ok := conf["dfs.namenode.rpc-address."+cluster]; ok {
		return addresses(address)
	}
	if !strings.Contains(cluster, ".") && !strings.Contains(cluster, ":") && strings.Contains(","+conf["dfs.nameservices"]+",", ","+cluster+",") {
		return nil, fmt.Errorf("%s has no dfs.ha.namenodes.%s, the NameNodes of the nameservice", from, cluster)
	}
	return addresses(cluster)
}

func ofNameservice(conf hadoopconf.HadoopConf, from, cluster, ids string) ([]string, error) {
	var found []string
	for _, id := range strings.Split(ids, ",") {
		key := "dfs.namenode.rpc-address." + cluster + "." + strings.TrimSpace(id)
		if conf[key] == "" {
			return nil, fmt.Errorf("%s has no %s, the address of a NameNode", from, key)
		}
		found = append(found, conf[key])
	}
	return addresses(found...)
}

func addresses(of ...string) ([]string, error) {
	var found []string
	for _, each := range of {
		if strings.Contains(each, "${") {
			return nil, fmt.Errorf("the address of a NameNode is %s; references to other settings are not followed here, write it out", each)
		}
		if !strings.Contains(strings.TrimLeft(each, "["), ":") {
			each += ":" + usualPort
		}
		found = append(found, each)
	}
	return found, nil
}

// userName is who asks a cluster without Kerberos.
func userName() (string, error) {
	if named := os.Getenv("HADOOP_USER_NAME"); named != "" {
		return named, nil
	}
	found, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("this process has no user's name: %w; set HADOOP_USER_NAME", err)
	}
	return found.Username, nil
}
