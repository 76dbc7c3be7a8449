// Command client_go does with client-go what //integration/kube_bench measures, in the way that its
// documentation advises: protobuf, shared informers, no rate limit of its own.
//
//	client_go informer KUBECONFIG            follows Nodes and Pods until it has them all
//	client_go bind KUBECONFIG NAMESPACE PREFIX COUNT CONCURRENCY NODE
//	    creates COUNT Pods PREFIX-<i>, then binds each to NODE
//
// Prints one line of JSON: seconds of wall and CPU time, and its resident memory in bytes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

type use struct {
	wall time.Time
	cpu  float64
}

func now() use {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return use{time.Now(), seconds(usage.Utime) + seconds(usage.Stime)}
}

func (u use) since(name string, into map[string]float64) {
	later := now()
	into[name+"_wall_s"] = later.wall.Sub(u.wall).Seconds()
	into[name+"_cpu_s"] = later.cpu - u.cpu
}

// In bytes, of a line of /proc/self/status.
func memory(field string) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, field+":") {
			kib, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
			if err != nil {
				panic(err)
			}
			return kib * 1024
		}
	}
	panic("no " + field)
}

func informer(client kubernetes.Interface) (map[string]float64, error) {
	told := map[string]float64{}
	start := now()
	stop := make(chan struct{})
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes().Informer()
	pods := factory.Core().V1().Pods().Informer()
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(stop) {
		if !synced {
			return nil, fmt.Errorf("%v did not sync", kind)
		}
	}
	start.since("sync", told)
	told["objects"] = float64(len(nodes.GetStore().ListKeys()) + len(pods.GetStore().ListKeys()))
	told["rss_bytes"] = memory("VmRSS")
	told["peak_rss_bytes"] = memory("VmHWM")
	return told, nil
}

func each(count, concurrency int, do func(i int) error) error {
	indexes := make(chan int)
	errs := make(chan error, concurrency)
	var group sync.WaitGroup
	for w := 0; w < concurrency; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			var first error
			for i := range indexes {
				if err := do(i); err != nil && first == nil {
					first = err
				}
			}
			errs <- first
		}()
	}
	for i := 0; i < count; i++ {
		indexes <- i
	}
	close(indexes)
	group.Wait()
	for w := 0; w < concurrency; w++ {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func bind(client kubernetes.Interface, args []string) (map[string]float64, error) {
	namespace, prefix, node := args[0], args[1], args[4]
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return nil, err
	}
	concurrency, err := strconv.Atoi(args[3])
	if err != nil {
		return nil, err
	}
	pods := client.CoreV1().Pods(namespace)
	ctx := context.Background()
	told := map[string]float64{"count": float64(count)}
	uids := make([]types.UID, count)
	start := now()
	err = each(count, concurrency, func(i int) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)},
			Spec: corev1.PodSpec{
				SchedulerName: "none",
				Containers:    []corev1.Container{{Name: "c", Image: "i"}},
			},
		}
		created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		if err == nil {
			uids[i] = created.UID
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	start.since("create", told)
	start = now()
	err = each(count, concurrency, func(i int) error {
		name := fmt.Sprintf("%s-%d", prefix, i)
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uids[i]},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}
		return pods.Bind(ctx, binding, metav1.CreateOptions{})
	})
	if err != nil {
		return nil, err
	}
	start.since("bind", told)
	return told, nil
}

func run() error {
	if len(os.Args) < 3 {
		return fmt.Errorf("usage: client_go informer|bind KUBECONFIG …")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[2])
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var told map[string]float64
	switch {
	case os.Args[1] == "informer":
		told, err = informer(client)
	case os.Args[1] == "bind" && len(os.Args) == 8:
		told, err = bind(client, os.Args[3:])
	default:
		err = fmt.Errorf("no such command: %v", os.Args[1:])
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(told)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "client_go:", err)
		os.Exit(1)
	}
}
